package netfault

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// A message is one of the protocol as it was read: its kind, its length, its body.
type message []byte

func (m message) kind() byte   { return m[0] }
func (m message) body() []byte { return m[5:] }

var errProtocol = errors.New("netfault: not PostgreSQL's protocol")

const (
	maxStartup = 10_000  // MAX_STARTUP_PACKET_LENGTH of PostgreSQL
	maxMessage = 1 << 30 // MaxAllocSize of PostgreSQL, about
	readAtOnce = 32 << 10
)

// A reader cuts one direction of a connection into messages.
type reader struct{ from *bufio.Reader }

func newReader(from io.Reader) *reader { return &reader{bufio.NewReaderSize(from, readAtOnce)} }

// each calls f with every message, until f says that it is enough. A message is good until the next one.
func (r *reader) each(f func(message) (enough bool, err error)) error {
	for {
		m, err := r.next()
		if err != nil {
			return err
		}
		if enough, err := f(m); enough || err != nil {
			return err
		}
	}
}

// next reads a message. io.EOF is a connection that was closed between two, or in the middle of one: the end of what a
// killed process has sent is as it is.
func (r *reader) next() (message, error) {
	header, err := r.from.Peek(5)
	if err != nil {
		return nil, err
	}
	n := int64(binary.BigEndian.Uint32(header[1:]))
	if n < 4 || n > maxMessage {
		return nil, fmt.Errorf("%w: a message %q of %d bytes", errProtocol, header[0], n)
	}
	return r.read(1 + int(n))
}

// startup reads a client's first message, which has no kind.
func (r *reader) startup() (message, error) {
	header, err := r.from.Peek(4)
	if err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(header)
	if n < 8 || n > maxStartup {
		return nil, fmt.Errorf("%w: a start of %d bytes", errProtocol, n)
	}
	return r.read(int(n))
}

func (r *reader) read(n int) (message, error) {
	m := make(message, n)
	if _, err := io.ReadFull(r.from, m); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = io.EOF
		}
		return nil, err
	}
	return m, nil
}

// idle reports whether the next message is not there yet, so that what was read is to be passed on.
func (r *reader) idle() bool {
	n := r.from.Buffered()
	if n < 5 {
		return true
	}
	header, err := r.from.Peek(5)
	return err != nil || int64(n) <= int64(binary.BigEndian.Uint32(header[1:]))
}
