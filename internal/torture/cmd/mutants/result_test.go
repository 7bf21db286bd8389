package main

import (
	"bytes"
	"errors"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/torture/mutants"
)

func TestEveryKindOfRunHasAControl(t *testing.T) {
	t.Parallel()
	all := choose(regexp.MustCompile(""))
	runs, tests := make(map[string]bool), make(map[string]string)
	for _, s := range all {
		switch {
		case s.control && s.Test.Run != "":
			tests[s.Test.Package] = s.Test.Run
			require.Empty(t, s.Edits)
		case s.control:
			runs[kind(&s.Mutant)] = true
			require.Empty(t, s.Edits)
		case s.Test.Run != "":
			require.Contains(t, tests[s.Test.Package], s.Test.Run, s.Name)
		default:
			require.True(t, runs[kind(&s.Mutant)], s.Name)
		}
	}
}

func TestTableTellsWhatIsNotCaught(t *testing.T) {
	t.Parallel()
	harness := mutants.Mutant{Name: "x", Torture: []string{"-jobs", "1"}, By: []string{"I4"}}
	tested := mutants.Mutant{Name: "y", Test: mutants.Test{Package: "fifo", Run: "TestY"}}
	for name, x := range map[string]struct {
		result result
		want   string // of the error
	}{
		"caught":               {result{subject: &subject{Mutant: harness}, by: []string{"I4"}}, ""},
		"caught by a test":     {result{subject: &subject{Mutant: tested}, by: []string{"TestY"}}, ""},
		"not caught":           {result{subject: &subject{Mutant: harness}}, "1 are not as they should be"},
		"not caught by a test": {result{subject: &subject{Mutant: tested}}, "1 are not as they should be"},
		"the gate failed": {result{
			subject: &subject{Mutant: harness}, by: []string{"I4"}, err: errors.New("x"),
		}, "1 are not as they should be"},
		"control": {result{subject: &subject{Mutant: harness, control: true}}, ""},
		"control that is not": {result{
			subject: &subject{Mutant: harness, control: true}, by: []string{"I4"},
		}, "1 are not as they should be"},
		"control of some tests": {result{
			subject: &subject{Mutant: tested, control: true}, by: []string{"TestY"},
		}, "1 are not as they should be"},
	} {
		var b bytes.Buffer
		err := printTable(&b, []result{x.result}, time.Second)
		if x.want == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err, x.want, name)
		require.Regexp(t, "NOT CAUGHT|FAILED|BROKEN", b.String(), name)
	}
}
