package egress

import (
	"errors"
	"io"
	"net"
	"testing"
)

// A write after the other side has closed is dropped, its answer is read, and no request is begun afterwards.
func TestConnWriteAfterEarlyClose(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	dialled, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	conn := &Conn{Conn: dialled}
	defer func() { _ = conn.Close() }()
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	conn.WasIdle()
	if _, err := conn.Write([]byte("request")); err != nil || conn.Unused() {
		t.Fatalf("unused: %t, %v", conn.Unused(), err)
	}
	if _, err := io.WriteString(accepted, "answer"); err != nil {
		t.Fatal(err)
	}
	if err := accepted.Close(); err != nil { // with unread data: the connection is reset
		t.Fatal(err)
	}
	const piece = 64 << 10
	for written := 0; !conn.ended.Load(); written++ {
		if n, err := conn.Write(make([]byte, piece)); n != piece || err != nil || written > 1<<16 {
			t.Fatalf("piece %d: %d, %v", written, n, err)
		}
	}
	answer := make([]byte, 6)
	if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != "answer" {
		t.Errorf("%q, %v", answer, err)
	}
	conn.WasIdle()
	for range 2 {
		if _, err := conn.Write([]byte("request")); !errors.Is(err, errClosedWhileIdle) || !conn.Unused() {
			t.Errorf("unused: %t, %v", conn.Unused(), err)
		}
	}
}
