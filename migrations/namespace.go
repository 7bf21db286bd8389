package migrations

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pgfifo/pgfifo/internal/schema"
)

// createSchemaSQL is what a migration tool runs in the place of createSchema.
func createSchemaSQL(name schema.Name) string {
	return "CREATE SCHEMA IF NOT EXISTS " + name.Ident() + ";\n"
}

// createSchema creates the schema unless it is there.
func createSchema(ctx context.Context, tx pgx.Tx, name schema.Name) error {
	// IF NOT EXISTS alone would want the right to create schemas even where an administrator has created this one.
	const sql = "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1::text)"
	var there bool
	if err := tx.QueryRow(ctx, sql, name.String()).Scan(&there); err != nil || there {
		return err
	}
	_, err := tx.Exec(ctx, createSchemaSQL(name))
	return err
}

// dropSchema drops the schema if nothing depends on it, be it the user's own table or an administrator's default
// privileges, and if the role may. The schema public is nobody's to drop.
func dropSchema(ctx context.Context, tx pgx.Tx, name schema.Name) error {
	const sql = `
		SELECT EXISTS (
			SELECT FROM pg_namespace n
			WHERE n.nspname = $1::text AND n.nspname <> 'public' AND pg_has_role(n.nspowner, 'USAGE')
			  AND NOT EXISTS (SELECT FROM pg_depend d
			                  WHERE d.refclassid = 'pg_namespace'::regclass::oid AND d.refobjid = n.oid))`
	var ours bool
	if err := tx.QueryRow(ctx, sql, name.String()).Scan(&ours); err != nil || !ours {
		return err
	}
	_, err := tx.Exec(ctx, "DROP SCHEMA "+name.Ident())
	return err
}
