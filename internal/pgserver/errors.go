package pgserver

import (
	"strings"
)

// Attempt is a source that was tried, and why it gave no server.
type Attempt struct {
	Source string // "url", "docker", "local" or "embedded"
	Err    error
}

// StartError is the error of Start when no source gave a server. Its text has
// the reason of every source tried and what to install or set; errors.Is and
// errors.As see each reason.
type StartError struct {
	Attempts []Attempt // in the order of trying; at least one
}

// advice is what to do about a source that failed.
var advice = map[string]string{
	sourceURL:    "set " + EnvURL + " to a running server's URL",
	sourceDocker: "start Docker and pull " + DefaultImage + " (or set " + EnvImage + ")",
	sourceLocal: "install PostgreSQL's server (Debian: apt-get install postgresql) or put its folder of " +
		"binaries into PATH",
	sourceEmbedded: "run as an ordinary user with access to the internet",
}

// Error lists every source tried, one a line, with its reason and advice.
func (e *StartError) Error() string {
	var b strings.Builder
	b.WriteString("pgserver: no PostgreSQL server")
	for _, a := range e.Attempts {
		reason := strings.ReplaceAll(strings.TrimSpace(a.Err.Error()), "\n", "\n    ")
		b.WriteString("\n  " + a.Source + ": " + reason)
		b.WriteString("\n    to get it: " + advice[a.Source])
	}
	return b.String()
}

// Unwrap returns the reasons, for errors.Is and errors.As.
func (e *StartError) Unwrap() []error {
	errs := make([]error, len(e.Attempts))
	for i, a := range e.Attempts {
		errs[i] = a.Err
	}
	return errs
}
