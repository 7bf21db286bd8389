package migrations_test

import (
	"context"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgfifo/pgfifo/migrations"
)

// emptyPool returns a pool on an empty database of the example's own.
func emptyPool() *pgxpool.Pool {
	pool, err := migrations.EmptyPool()
	if err != nil {
		panic(err)
	}
	return pool
}

// Each process may call Up when it starts. Where there is nothing to do it is one read.
func ExampleUp() {
	ctx := context.Background()
	pool := emptyPool() // pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	cfg := &migrations.Config{Schema: "shop_queue"}

	for range 2 {
		if err := migrations.Up(ctx, pool, cfg); err != nil {
			log.Fatal(err)
		}
		version, err := migrations.Version(ctx, pool, cfg)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("latest:", version == migrations.Latest)
	}
	// Output:
	// latest: true
	// latest: true
}

// Grant comes after each Up. Logins are made members of the roles.
func ExampleGrant() {
	ctx := context.Background()
	pool := emptyPool() // pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err := migrations.Up(ctx, pool, nil); err != nil {
		log.Fatal(err)
	}
	roles := migrations.Roles{ // the zero value has names, too
		Producer: "pgfifo_example_producer", Worker: "pgfifo_example_worker",
		Reader: "pgfifo_example_reader", Admin: "pgfifo_example_admin",
	}
	if err := migrations.Grant(ctx, pool, roles, nil); err != nil {
		log.Fatal(err)
	}

	const may = "SELECT has_table_privilege($1, 'pgfifo.jobs', 'DELETE')"
	for _, role := range []string{roles.Producer, roles.Worker} {
		var allowed bool
		if err := pool.QueryRow(ctx, may, role).Scan(&allowed); err != nil {
			log.Fatal(err)
		}
		fmt.Println(role, "may delete jobs:", allowed)
	}
	// Output:
	// pgfifo_example_producer may delete jobs: false
	// pgfifo_example_worker may delete jobs: true
}
