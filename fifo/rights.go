package fifo

import (
	"context"
	"fmt"
	"strings"
)

// checkRights returns ErrRights if the role of the worker's connections cannot run what every worker runs. It asks at
// the start: a right that is taken away later may be given again, so that is tried again like other trouble.
func (w *Worker) checkRights(ctx context.Context, on pgxQuerier) error {
	var role string
	var lacks []string
	err := each(ctx, pgxSession{on}, w.Client.schema.Qualify(statement("rights")), func(r row) error {
		var one string
		err := r.Scan(&role, &one)
		lacks = append(lacks, one)
		return err
	})
	switch {
	case err != nil:
		return fmt.Errorf("fifo: look what the worker's role may do: %w", err)
	case len(lacks) > 0:
		return fmt.Errorf("%w: role %q has no %s; migrations.Grant gives them to the members of a worker's role",
			ErrRights, role, strings.Join(lacks, ", no "))
	}
	return nil
}
