package netfault

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/pgfifo/pgfifo/internal/daemon"
)

// A Net is a network namespace with a cable to this machine's own, for processes that are to lose their connection. It
// takes root's rights and the program ip. Its methods are safe for concurrent use.
type Net struct {
	ip           string // the program
	name         string
	hostEnd, end string // the cable's ends: here, and in the namespace
	hostIP, inIP net.IP
	guard        *daemon.Guard // its end has the namespace removed

	mu     sync.Mutex
	closed bool
}

var count atomic.Uint32

// NewNet makes a namespace. It is gone when it is closed, or when this process ends, however that ends. The error wraps
// ErrNoNet and says what is missing.
func NewNet() (*Net, error) {
	ip, err := exec.LookPath("ip")
	if err != nil {
		return nil, fmt.Errorf("%w: the program ip (of iproute2) is missing: %w", ErrNoNet, err)
	}
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("%w: it takes root (CAP_SYS_ADMIN and CAP_NET_ADMIN)", ErrNoNet)
	}
	id := uint32(os.Getpid())<<6 + count.Add(1)
	subnet, err := freeSubnet(ip, id)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoNet, err)
	}
	n := &Net{
		ip: ip, name: fmt.Sprintf("pgfifo-%x", id), hostEnd: fmt.Sprintf("pgf%x", id), end: "up0",
		hostIP: address(subnet, 1), inIP: address(subnet, 2),
	}
	if n.guard, err = daemon.NewGuard(sweep, n.ip, n.hostEnd, n.name); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoNet, err)
	}
	if err := n.setUp(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoNet, errors.Join(err, n.Close()))
	}
	return n, nil
}

// sweep removes what a Net has left. The cable goes with either of its ends.
const sweep = `cat >/dev/null; "$1" link del "$2" 2>/dev/null; "$1" netns del "$3" 2>/dev/null; :`

func (n *Net) setUp() error {
	for _, args := range [][]string{
		{"netns", "add", n.name},
		{"link", "add", n.hostEnd, "type", "veth", "peer", "name", n.end, "netns", n.name},
		{"addr", "add", n.hostIP.String() + "/30", "dev", n.hostEnd},
		{"link", "set", n.hostEnd, "up"},
		{"-n", n.name, "addr", "add", n.inIP.String() + "/30", "dev", n.end},
		{"-n", n.name, "link", "set", "lo", "up"},
		{"-n", n.name, "link", "set", n.end, "up"},
	} {
		if err := n.run(args...); err != nil {
			return err
		}
	}
	return nil
}

func (n *Net) run(args ...string) error {
	out, err := exec.Command(n.ip, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// HostIP returns the address of this machine as the namespace sees it: a server that is to be reached from there
// listens at it. Nothing else can be reached.
func (n *Net) HostIP() string { return n.hostIP.String() }

// Run starts a command in the namespace. Its process is the command's own, so signals reach it.
func (n *Net) Run(cmd *exec.Cmd) error {
	if cmd.Err != nil {
		return cmd.Err
	}
	cmd.Args = append([]string{n.ip, "netns", "exec", n.name, cmd.Path}, cmd.Args[1:]...) // which replaces itself
	cmd.Path = n.ip
	return cmd.Start()
}

// Cut pulls the cable: the namespace's end is down. What is sent to it vanishes, and a process in it that wants to
// connect is told that there is no network.
func (n *Net) Cut() error { return n.run("-n", n.name, "link", "set", n.end, "down") }

// nobody is the hardware address of a card that is not there.
const nobody = "02:00:00:00:00:01"

// CutOneWay has everything vanish that goes in one direction, as if the fault were somewhere on the way: no end is told
// anything. Cut in both directions, it is a partition.
func (n *Net) CutOneWay(dir Direction) error {
	return n.neighbour(dir, "replace", "lladdr", nobody, "nud", "permanent")
}

// Heal ends all cuts.
func (n *Net) Heal() error {
	err := n.run("-n", n.name, "link", "set", n.end, "up")
	for _, dir := range []Direction{ToServer, ToClient} {
		err = errors.Join(err, n.neighbour(dir, "replace", "lladdr", nobody, "nud", "permanent"),
			n.neighbour(dir, "del"))
	}
	return err
}

// neighbour changes what one end of the cable takes for the other's hardware address.
func (n *Net) neighbour(dir Direction, do string, to ...string) error {
	args := []string{"-n", n.name, "neigh", do, n.hostIP.String(), "dev", n.end}
	if dir == ToClient {
		args = []string{"neigh", do, n.inIP.String(), "dev", n.hostEnd}
	}
	return n.run(append(args, to...)...)
}

// Close removes the namespace. Processes that still run there go on, with nobody to talk to.
func (n *Net) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil
	}
	n.closed = true
	err := n.guard.Close()
	if _, statErr := os.Stat("/run/netns/" + n.name); statErr == nil {
		err = errors.Join(err, fmt.Errorf("netfault: %s is still there", n.name))
	}
	return err
}

// freeSubnet returns a network of four addresses that this machine knows nothing about.
func freeSubnet(ip string, id uint32) (net.IP, error) {
	for _, private := range []struct {
		base uint32
		bits int // of addresses
	}{{10 << 24, 24}, {172<<24 | 16<<16, 20}, {192<<24 | 168<<16, 16}} {
		for try := range uint32(8) {
			base := private.base | (id+try*0x3a5)<<2&(1<<private.bits-1)
			subnet := binary.BigEndian.AppendUint32(nil, base)
			if taken, err := isRouted(ip, subnet); err != nil {
				return nil, err
			} else if !taken {
				return subnet, nil
			}
		}
	}
	return nil, errors.New("every private network that was tried is in use")
}

func address(subnet net.IP, host byte) net.IP {
	return net.IPv4(subnet[0], subnet[1], subnet[2], subnet[3]+host)
}

// isRouted reports whether a route of this machine, the default aside, covers an address: it is somebody's.
func isRouted(ip string, subnet net.IP) (bool, error) {
	out, err := exec.Command(ip, "-oneline", "-4", "route", "show", "match", subnet.String()).Output()
	for route := range strings.Lines(string(out)) {
		if !slices.Contains(strings.Fields(route), "default") {
			return true, err
		}
	}
	return false, err
}
