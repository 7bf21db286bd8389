package pgserver

import (
	"os/exec"
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
	sourceLocal: install(exec.LookPath) + " installs PostgreSQL's server; one that is there already is found " +
		"if its folder of binaries is in PATH",
	sourceEmbedded: "have access to the internet",
}

// installers are the commands that install PostgreSQL's server, by the program
// that tells a kind of system from others.
var installers = [...]struct{ program, command string }{
	{"apt-get", "apt-get update && apt-get install -y postgresql"},
	{"dnf", "dnf install -y postgresql-server"},
	{"apk", "apk add postgresql"},
	{"pacman", "pacman -Sy --noconfirm postgresql"},
	{"zypper", "zypper install -y postgresql-server"},
	{"brew", "brew install postgresql@17"},
	{"winget", "winget install PostgreSQL.PostgreSQL.17"},
}

// install returns the command for this system, or Debian's and its name.
func install(lookPath func(string) (string, error)) string {
	for _, i := range installers {
		if _, err := lookPath(i.program); err == nil {
			return "`" + i.command + "`"
		}
	}
	return "the package manager (Debian's: `" + installers[0].command + "`)"
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
