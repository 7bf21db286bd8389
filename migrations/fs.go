package migrations

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io/fs"
	"testing/fstest"
)

// FS returns the steps as files for golang-migrate, NNNN_name.up.sql and NNNN_name.down.sql, for the named schema (""
// means "pgfifo"). They are plain SQL without transaction control: who has no tool runs each in one transaction.
//
// A file waits for 2 seconds for each table lock, and fails then: run it again after a pause, as Up does by itself;
// golang-migrate wants a force to the version before.
//
// The first file creates the schema unless it is there (where your role may not create schemas, delete that line and
// have it created). The last one to go down leaves it, and fails while there are jobs or dead letters.
func FS(schema string) (fs.FS, error) { return filesFor(schema, plain) }

// GooseFS is FS for goose: NNNN_name.sql with both directions.
func GooseFS(schema string) (fs.FS, error) { return filesFor(schema, goose) }

// AtlasFS is FS for atlas: NNNN_name.sql, and atlas.sum with their checksums. There is no way down: atlas has its own.
func AtlasFS(schema string) (fs.FS, error) { return filesFor(schema, atlas) }

// plain, goose and atlas lay out the steps for a tool.
func plain(steps []step) (files []file) {
	for _, s := range steps {
		files = append(files, s.up, s.down)
	}
	return files
}

func goose(steps []step) (files []file) {
	for _, s := range steps {
		files = append(files, file{s.name(), gooseSection("Up", s.up) + "\n" + gooseSection("Down", s.down)})
	}
	return files
}

// gooseSection keeps goose from cutting the file into statements, which it would do at each semicolon that ends a line.
func gooseSection(direction string, f file) string {
	return "-- +goose " + direction + "\n-- +goose StatementBegin\n" + f.sql + "-- +goose StatementEnd\n"
}

func atlas(steps []step) (files []file) {
	// https://atlasgo.io/concepts/migration-directory-integrity: each file's sum is that of all up to it.
	var lines bytes.Buffer
	each, all := sha256.New(), sha256.New()
	for _, s := range steps {
		f := file{s.name(), s.up.sql}
		files = append(files, f)
		each.Write([]byte(f.name + f.sql))
		sum := base64.StdEncoding.EncodeToString(each.Sum(nil))
		all.Write([]byte(f.name + sum))
		fmt.Fprintf(&lines, "%s h1:%s\n", f.name, sum)
	}
	head := "h1:" + base64.StdEncoding.EncodeToString(all.Sum(nil)) + "\n"
	return append(files, file{"atlas.sum", head + lines.String()})
}

// inTools precedes what others run: a step that waits for a running job holds up the enqueues behind it.
const inTools = "SET LOCAL lock_timeout = '2s'; -- it fails then: try again after a pause\n\n"

// filesFor returns the files of a schema as layOut wants them.
func filesFor(schema string, layOut func([]step) []file) (fs.FS, error) {
	name, err := parse(schema)
	if err != nil {
		return nil, err
	}
	steps, err := load(files)
	if err != nil {
		return nil, err
	}
	for i := range steps {
		up, down := &steps[i].up, &steps[i].down
		up.sql, down.sql = name.Qualify(up.sql), inTools+name.Qualify(down.sql)
		if i == 0 {
			up.sql = createSchemaSQL(name) + "\n" + up.sql
		}
		up.sql = inTools + up.sql
	}
	tree := make(fstest.MapFS) // the standard library's fs.FS in memory
	for _, f := range layOut(steps) {
		tree[f.name] = &fstest.MapFile{Data: []byte(f.sql), Mode: 0o444}
	}
	return tree, nil
}
