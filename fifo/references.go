package fifo

import (
	"context"
	"fmt"
)

// references looks for foreign keys that refer to jobs or groups, and tells of each once. A row that refers to a job
// which is running hides it: see sql/references.sql.
type references struct {
	*crew
	told map[int64]bool // by the oid
}

func (f *references) look(ctx context.Context) error {
	client := f.worker.Client
	err := each(ctx, pgxSession{client.pool}, client.schema.Qualify(statement("references")), func(r row) error {
		var oid int64
		var table, name string
		if err := r.Scan(&oid, &table, &name); err != nil || f.told[oid] {
			return err
		}
		f.told[oid] = true
		f.log.Warn("pgfifo: a foreign key refers to the library's tables: lost attempts may not be counted, and "+
			"verbs may take jobs that run; drop it, and keep the job's id without one",
			"table", table, "constraint", name)
		return nil
	})
	if err != nil {
		return fmt.Errorf("fifo: look for foreign keys: %w", err)
	}
	return nil
}
