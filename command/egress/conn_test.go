package egress

import (
	"errors"
	"io"
	"net"
	"testing"

	"carillon/eventstore/storetest/must"
)

// A write after the other side has closed is dropped, its answer is read, and no request is begun afterwards.
func TestConnWriteAfterEarlyClose(t *testing.T) {
	t.Parallel()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer func() { _ = listener.Close() }()
	dialled := must.Get(net.Dial("tcp", listener.Addr().String()))(t)
	conn := &Conn{Conn: dialled}
	defer func() { _ = conn.Close() }()
	accepted := must.Get(listener.Accept())(t)
	conn.WasIdle()
	if _, err := conn.Write([]byte("request")); err != nil || conn.Unused() {
		t.Fatalf("unused: %t, %v", conn.Unused(), err)
	}
	must.Get(io.WriteString(accepted, "answer"))(t)
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
