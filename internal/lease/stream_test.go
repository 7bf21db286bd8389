package lease

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"io"
	"math/big"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// message returns one of the protocol's.
func message(kind byte, body string) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{kind}, 4+uint32(len(body))), body...)
}

// Messages are told apart however the bytes are cut up.
func TestFrames(t *testing.T) {
	t.Parallel()
	var all []byte
	for _, m := range [][]byte{
		message('D', "row"), message('Z', "T"), message('n', ""), message('N', string(make([]byte, 300))),
	} {
		all = append(all, m...)
	}
	for size := 1; size <= len(all); size++ {
		f := &frames{}
		var kinds string
		for rest := all; len(rest) > 0; {
			b := rest[:min(size, len(rest))]
			rest = rest[len(b):]
			for len(b) > 0 {
				left := f.left()
				n, kind := f.step(b)
				require.LessOrEqual(t, min(left, len(b)), n)
				b = b[n:]
				if kind != 0 {
					kinds += string(kind)
				}
			}
		}
		require.Equal(t, "DZnN", kinds)
		require.Zero(t, f.n)
	}
}

// Whose turn it is, by what both sides have said.
func TestWhoseTurn(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		say, hear string
		owed      int
	}{
		"nothing":                          {"", "", 0},
		"a query":                          {"Q", "TDD", 1},
		"a query, answered":                {"Q", "TDDCZ", 0},
		"a notice beside":                  {"", "NSA", 0},
		"a statement":                      {"PBDES", "12", 1},
		"a statement, answered":            {"PBDES", "12nCZ", 0},
		"two, one answered":                {"BESBES", "2CZ2", 1},
		"no Sync yet":                      {"PBEH", "12", 1},
		"no Sync yet, all answered so far": {"PBEH", "12C", 1},
		"Sync comes late":                  {"PBEHS", "12CZ", 0},
		"Sync alone":                       {"S", "", 1},
		"copying in":                       {"Qddd", "G", 1},
		"copied in":                        {"Qdddc", "GCZ", 0},
		"a call":                           {"F", "V", 1},
	} {
		s := &stream{}
		for _, kind := range []byte(x.say) {
			s.say(message(kind, "x"))
		}
		for _, kind := range []byte(x.hear) {
			s.hear(message(kind, "x"))
		}
		require.Equal(t, x.owed, s.owed, name)
	}
}

// encrypted makes the dialer's connections TLS, as far as a proxy in front of the server.
func encrypted(s *stage, d *Dialer) {
	s.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(s, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(s, err)
	cfg := &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12,
	}
	host := d.Pool.ConnConfig
	server := net.JoinHostPort(host.Host, strconv.Itoa(int(host.Port)))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(s, err)
	s.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close() //nolint:errcheck // the test is over
				// An SSLRequest comes first.
				if _, err := io.ReadFull(c, make([]byte, 8)); err != nil {
					return
				}
				_, _ = c.Write([]byte{'S'})
				plain, err := net.Dial("tcp", server)
				if err != nil {
					return
				}
				client := tls.Server(c, cfg)
				go func() {
					_, _ = io.Copy(plain, client)
					_ = plain.Close()
				}()
				_, _ = io.Copy(client, plain)
			}()
		}
	}()
	addr := listener.Addr().(*net.TCPAddr)
	host.Host, host.Port, host.Fallbacks = "127.0.0.1", uint16(addr.Port), nil //nolint:gosec // a port
	host.TLSConfig = &tls.Config{InsecureSkipVerify: true}                     //nolint:gosec // the test's own
}

// Heartbeats pass and the end of a session is noticed on an encrypted connection, too, whatever of an answer TLS holds
// back.
func TestBeatBeneathTLS(t *testing.T) {
	pgtest.OverAll(t, map[string]string{
		"few rows":           "SELECT generate_series(1, 8)",
		"rows in the socket": "SELECT repeat('x', 1000) FROM generate_series(1, 500)",
	}, func(t *testing.T, sql string) {
		s := newStage(t)
		s.Enqueue(1, "a", "silent")
		d := s.dialer(hasty)
		encrypted(s, d)
		l := s.dial(d)
		require.NotNil(t, l.stream.socket)
		require.IsType(t, &tls.Conn{}, l.stream.Conn)
		h := s.claim(l, "a")
		var lasted bool
		cause, held := s.beside(l, func(ctx context.Context) {
			rows, err := s.pgxTx(h).Query(context.WithoutCancel(ctx), sql)
			require.NoError(t, err)
			defer rows.Close()
			require.True(t, rows.Next())
			s.over(hasty)
			lasted = ctx.Err() == nil
			s.Exec("SELECT pg_terminate_backend($1)", l.stream.pid)
			select {
			case <-ctx.Done():
			case <-time.After(pgtest.Patient):
			}
		})
		require.True(t, lasted, "%v", cause)
		require.ErrorIs(t, cause, ErrLost)
		require.ErrorIs(t, held, ErrLost)
	})
}
