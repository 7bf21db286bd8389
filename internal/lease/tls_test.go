package lease

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/pgtest"
)

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
	overAll(t, map[string]string{
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
			s.Exec("SELECT pg_terminate_backend($1)", l.pid)
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
