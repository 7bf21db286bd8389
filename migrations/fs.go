package migrations

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io/fs"

	"github.com/pgfifo/pgfifo/internal/schema"
)

// FS returns the steps as files, NNNN_name.up.sql and NNNN_name.down.sql, for the named schema ("" means "pgfifo").
// They are plain SQL without transaction control: run each in one transaction.
//
// The first file creates the schema unless it is there (where your role may not create schemas, delete that line and
// have it created). The last one to go down leaves it.
func FS(schema string) (fs.FS, error) {
	name, err := parse(schema)
	if err != nil {
		return nil, err
	}
	steps, err := load(files)
	if err != nil {
		return nil, err
	}
	return archive(name, steps)
}

// archive returns the files in a zip archive, which the standard library can read as a complete fs.FS.
func archive(name schema.Name, steps []step) (fs.FS, error) {
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	for i, s := range steps {
		up := name.Qualify(s.up.sql)
		if i == 0 {
			up = createSchemaSQL(name) + "\n" + up
		}
		for _, f := range []file{{s.up.name, up}, {s.down.name, name.Qualify(s.down.sql)}} {
			if err := write(w, f); err != nil {
				return nil, fmt.Errorf("migrations: %s: %w", f.name, err)
			}
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("migrations: %w", err)
	}
	r, err := zip.NewReader(bytes.NewReader(buf.Bytes()), int64(buf.Len()))
	if err != nil {
		return nil, fmt.Errorf("migrations: %w", err)
	}
	return r, nil
}

func write(w *zip.Writer, f file) error {
	dst, err := w.CreateHeader(&zip.FileHeader{Name: f.name, Method: zip.Store})
	if err != nil {
		return err
	}
	_, err = dst.Write([]byte(f.sql))
	return err
}
