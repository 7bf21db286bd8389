package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// printTable prints what came of all subjects. The error says how many were not as they should.
func printTable(to io.Writer, results []result, took time.Duration) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	var wrong, byHarness, byTest int
	theme := ""
	for i := range results {
		r := &results[i]
		if r.theme != theme {
			theme = r.theme
			_, _ = fmt.Fprintf(w, "\t\t\t\n%s\tcaught by\tseconds\t\n", strings.ToUpper(theme))
		}
		switch {
		case !r.ok():
			wrong++
		case r.control:
		case r.Test.Run != "":
			byTest++
		default:
			byHarness++
		}
		_, _ = fmt.Fprintf(w, "  %s\t%s\t%.1f\t%s\n", r.Name, r.verdict(), r.seconds, r.Breaks)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(to, "\n%d mutants caught by the harness, %d by a test, in %v\n", byHarness, byTest,
		took.Round(time.Second))
	if wrong > 0 {
		return fmt.Errorf("%d are not as they should be: a mutant that nothing catches is a hole in the harness", wrong)
	}
	return nil
}
