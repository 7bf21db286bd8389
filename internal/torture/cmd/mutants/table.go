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
			_, _ = fmt.Fprintf(w, "\t\t\t\t\n%s\tcaught by\tjobs\tseconds\t\n", strings.ToUpper(theme))
		}
		jobs, by := "", strings.Join(r.by, " ")
		switch {
		case !r.ok():
			wrong++
			by = r.verdict()
		case r.control:
			by = "passes: " + strings.Join(r.Torture, " ")
			if r.Test.Run != "" {
				by = fmt.Sprintf("passes: %d tests of package %s", strings.Count(r.Test.Run, "|")+1, r.Test.Package)
			}
		case r.Test.Run != "":
			byTest++
			by = "test " + by
		default:
			byHarness++
			jobs = fmt.Sprint(r.jobs)
		}
		_, _ = fmt.Fprintf(w, "  %s\t%s\t%s\t%.1f\t%s\n", r.Name, by, jobs, r.seconds, r.Breaks)
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
