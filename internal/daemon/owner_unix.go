//go:build unix

package daemon

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// owner is the user who runs programs: PostgreSQL's refuse to run as root.
type owner struct {
	name string // "" is ourselves
	cred *syscall.Credential
}

// newOwner returns ourselves or, when we are root, the user postgres or
// else nobody.
func newOwner() (*owner, error) {
	if os.Geteuid() != 0 {
		return &owner{}, nil
	}
	var errs []error
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(err1, err2); err != nil {
			errs = append(errs, err)
			continue
		}
		return &owner{name, &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
	}
	return nil, fmt.Errorf("PostgreSQL does not run as root, and there is no other user: %w", errors.Join(errs...))
}

// own gives a folder to the owner.
func (o *owner) own(dir string) error {
	if o.cred == nil {
		return nil
	}
	return os.Chown(dir, int(o.cred.Uid), int(o.cred.Gid))
}

// apply has a command run by the owner, in a session of its own: Ctrl-C on the
// terminal is for the test run, which then decides about its server.
func (o *owner) apply(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: o.cred}
}

// hint says what may be wrong when a command of the owner's can't be started.
func (o *owner) hint() string {
	if o.cred == nil {
		return ""
	}
	return fmt.Sprintf(" (as user %s, since we are root: that user must be able to enter the folder for "+
		"temporary files, TMPDIR, and a container must let root become another user)", o.name)
}
