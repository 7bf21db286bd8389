package lease

import "encoding/binary"

// headSize is that of a message's type and length.
const headSize = len(frames{}.head)

// frames splits a stream into messages: a type, a length that counts itself, and the rest.
type frames struct {
	head [5]byte
	n    int // how much of head has come; 0 between two messages
	rest int // how much is to come behind it
}

// step goes on to the end of a message, or of b. It returns how much of b that is, and the message's type if it has
// ended.
func (f *frames) step(b []byte) (n int, kind byte) {
	if f.n < len(f.head) {
		n = copy(f.head[f.n:], b)
		if f.n += n; f.n < len(f.head) {
			return n, 0
		}
		f.rest = max(int(int32(binary.BigEndian.Uint32(f.head[1:])))-4, 0)
	}
	k := min(f.rest, len(b)-n)
	f.rest -= k
	if f.rest > 0 {
		return n + k, 0
	}
	f.n = 0
	return n + k, f.head[0]
}

// left returns how much is certainly left of the message that has begun.
func (f *frames) left() int {
	if f.n < len(f.head) {
		return len(f.head) - f.n
	}
	return f.rest
}
