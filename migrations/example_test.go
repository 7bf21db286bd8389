package migrations_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgfifo/pgfifo/fifo"
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

// Down keeps jobs, unless it is told to drop them.
func ExampleDown() {
	ctx := context.Background()
	pool := emptyPool() // pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err := migrations.Up(ctx, pool, nil); err != nil {
		log.Fatal(err)
	}
	client := fifo.Open(pool, nil)
	defer func() { _ = client.Close() }()
	if _, err := client.Enqueue(ctx, fifo.Message{Queue: "orders", GroupID: "ada"}); err != nil {
		log.Fatal(err)
	}

	err := migrations.Down(ctx, pool, nil)
	fmt.Println("kept:", errors.Is(err, migrations.ErrNotEmpty))
	fmt.Println(migrations.Down(ctx, pool, &migrations.Config{DropJobs: true}))
	// Output:
	// kept: true
	// <nil>
}

// A tool's command wants the files in a folder.
func ExampleAtlasFS() {
	dir, err := os.MkdirTemp("", "migrations")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	files, err := migrations.AtlasFS("shop_queue")
	if err != nil {
		log.Fatal(err)
	}
	if err := os.CopyFS(dir, files); err != nil {
		log.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(dir, "atlas.sum"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(strings.HasPrefix(string(sums), "h1:"))
	// Output: true
}

// The provider of goose takes the files as they are.
func ExampleGooseFS() {
	files, err := migrations.GooseFS("shop_queue") // goose.NewProvider(goose.DialectPostgres, db, files)
	if err != nil {
		log.Fatal(err)
	}
	names, err := fs.Glob(files, "0001*")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(names)
	// Output: [0001_init.sql]
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
