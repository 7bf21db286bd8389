package migrations

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgfifo/pgfifo/internal/schema"
)

//go:embed roles.sql
var rolesSQL string

// Roles names four group roles that share the work, each with the rights that it needs: see roles.sql for what each
// may. Logins are made members of them, with a CONNECTION LIMIT that keeps one program from using up the server's:
//
//	CREATE ROLE shop_web    LOGIN PASSWORD '...' CONNECTION LIMIT 40 IN ROLE pgfifo_producer;
//	CREATE ROLE shop_worker LOGIN PASSWORD '...' CONNECTION LIMIT 64 IN ROLE pgfifo_worker;
//
// A worker process needs Concurrency + 2 connections and those of its client's pool, Concurrency + 5 for queues with
// SessionLease, and both for queues of both kinds. A rolling deploy has the old processes and the new ones at once.
// What a handler writes to tables of the application's needs rights of its own, given to the worker's login.
//
// Roles belong to the whole cluster, so a member of a role has its rights in every database and schema where Grant was
// called with that name. Two of the names may be the same: that role then has both parts.
type Roles struct {
	// Producer calls Client.Enqueue, EnqueueTx and EnqueuePgxTx. Defaults to "pgfifo_producer".
	Producer string
	// Worker runs a fifo.Worker, whose handlers may enqueue. Defaults to "pgfifo_worker".
	Worker string
	// Reader calls what only reads: Jobs, DeadLetters, Groups, Why, Queues, Pauses, Measure, Settings and WaitEmpty, of
	// a fifo.Client or a Scope. Defaults to "pgfifo_reader".
	Reader string
	// Admin does what Reader does, and calls the verbs of a fifo.Scope that change something; Terminate needs
	// pg_signal_backend besides. It may call Client.Enqueue, without a DedupID, because a redrive needs that right, and
	// not pgfifo.enqueue. Defaults to "pgfifo_admin".
	Admin string
}

// RolesSQL returns the statements that make the roles, and give each what it needs in the schema ("" means "pgfifo")
// and nothing else, for your own tool: run it in one transaction, as the owner, after each migration. It returns
// ErrRole for a name that is not made of ASCII letters, digits, '_', '-' and '.', and for the schema public, which is
// not the library's own to close.
func RolesSQL(schema string, roles Roles) (string, error) {
	name, err := parse(schema)
	if err != nil {
		return "", err
	}
	return roles.sql(name)
}

// Grant runs RolesSQL in one transaction, as the owner of the schema and its tables. Call it after Up, each time: where
// nothing has changed it changes nothing, and it waits for no running job. Where a newer release went further it does
// nothing, as Up: the rights on what is new are not known here, and would be taken away.
//
// It returns ErrNotOwner if the current role is not, or not a member of, the owner of all of them, and of the types and
// the functions: PostgreSQL would give a part of the rights and a warning. Roles that are missing are created, for
// which the role needs CREATEROLE.
func Grant(ctx context.Context, pool *pgxpool.Pool, roles Roles, cfg *Config) error {
	m, err := migratorOf(pool, cfg)
	if err != nil {
		return err
	}
	sql, err := roles.sql(m.name)
	if err != nil {
		return err
	}
	return pgx.BeginTxFunc(ctx, pool, readCommitted, func(tx pgx.Tx) error {
		if err := m.lock(ctx, tx); err != nil {
			return err
		}
		s, err := readState(ctx, tx, m.name)
		if err == nil {
			err = s.check(m.name, Latest)
		}
		if err != nil || s.version > Latest { // a newer release has granted, and what it added is not to be taken back
			return err
		}
		var owner bool
		words := strings.Fields(strings.ReplaceAll(rolesSQL, ",", " "))
		if err := tx.QueryRow(ctx, ownerSQL, m.name.String(), words, grantedFunctions()).Scan(&owner); err != nil {
			return fmt.Errorf("migrations: read the owner of schema %q: %w", m.name, err)
		}
		if !owner {
			return fmt.Errorf("%w: schema %q", ErrNotOwner, m.name)
		}
		if _, err := tx.Exec(ctx, sql); err != nil {
			return fmt.Errorf("migrations: grant roles in schema %q: %w", m.name, err)
		}
		return nil
	})
}

// grantedFunctions returns the functions that roles.sql names, without the schema: name and types.
func grantedFunctions() (list []string) {
	for _, match := range grantedFunction.FindAllStringSubmatch(rolesSQL, -1) {
		list = append(list, match[1])
	}
	return list
}

var grantedFunction = regexp.MustCompile(`pgfifo\.(\w+\([^()]*\))`)

// ownerSQL tells whether the current role has the rights of the owner of the schema, of the tables and domains that are
// among the words of roles.sql ($2), and of the functions that it names ($3). A table has a type of its name, with its
// owner, and its sequences have that owner, too.
const ownerSQL = `
	SELECT pg_catalog.pg_has_role(n.nspowner, 'USAGE')
	   AND NOT EXISTS (SELECT FROM pg_catalog.pg_type t
	                   WHERE t.typnamespace = n.oid AND NOT pg_catalog.pg_has_role(t.typowner, 'USAGE')
	                     AND 'pgfifo.' || t.typname = ANY ($2::text[]))
	   AND NOT EXISTS (SELECT FROM pg_catalog.unnest($3::text[]) AS named (function)
	                   JOIN pg_catalog.pg_proc p
	                     ON p.oid = pg_catalog.to_regprocedure(
	                            pg_catalog.quote_ident(n.nspname) || '.' || named.function)
	                   WHERE NOT pg_catalog.pg_has_role(p.proowner, 'USAGE'))
	FROM pg_catalog.pg_namespace n
	WHERE n.nspname = $1::text`

// roleName leaves out every character with a meaning in a string, a quoted identifier or a dollar quote.
var roleName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,62}$`)

// sql returns roles.sql for the given names.
func (r Roles) sql(name schema.Name) (string, error) {
	if name.String() == "public" {
		return "", fmt.Errorf("%w: the schema public is shared, and cannot be closed to others", ErrRole)
	}
	pairs := []string{
		schema.Default + ".", name.Ident() + ".", "SCHEMA " + schema.Default + " ", "SCHEMA " + name.Ident() + " ",
	}
	for _, role := range []struct{ given, standard string }{
		{r.Producer, "pgfifo_producer"},
		{r.Worker, "pgfifo_worker"},
		{r.Reader, "pgfifo_reader"},
		{r.Admin, "pgfifo_admin"},
	} {
		role.given = cmp.Or(role.given, role.standard)
		switch lower := strings.ToLower(role.given); {
		case !roleName.MatchString(role.given):
			return "", fmt.Errorf("%w: %q: at most 63 ASCII letters, digits and _ - . are allowed", ErrRole, role.given)
		case strings.HasPrefix(lower, "pg_"), lower == "public", lower == "none":
			return "", fmt.Errorf("%w: %q is PostgreSQL's own", ErrRole, role.given)
		}
		pairs = append(pairs, "'"+role.standard+"'", "'"+role.given+"'", role.standard,
			pgx.Identifier{role.given}.Sanitize())
	}
	return strings.NewReplacer(pairs...).Replace(rolesSQL), nil
}
