package netfault

import "slices"

// Lossy reports whether a connection has lost something of what went in that direction.
func (p *Proxy) Lossy(dir Direction) bool {
	return slices.ContainsFunc(p.current(), func(l *link) bool { return l.isDamaged(dir) })
}
