// Package overlay builds Go programs with other texts in the place of some files, which stay as they are: go build
// -overlay.
package overlay

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
)

// Write writes the texts to a folder, and returns the file to build with. They are by the paths of the files that they
// replace; there need be no such files.
func Write(dir string, texts map[string]string) (string, error) {
	replace := make(map[string]string)
	for path, text := range texts {
		to := filepath.Join(dir, strconv.Itoa(len(replace))+"_"+filepath.Base(path))
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[path] = to
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, list, 0o600)
}
