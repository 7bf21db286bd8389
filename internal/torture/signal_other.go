//go:build !unix

package torture

import (
	"errors"
	"os"
	"os/exec"
)

const canStop = false

var errNoSignals = errors.New("no signals on this system")

func apart(*exec.Cmd) {}

func suspend(*os.Process) error { return errNoSignals }

func proceed(*os.Process) error { return errNoSignals }

func killBackend(int) error { return errNoSignals }
