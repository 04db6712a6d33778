package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"syscall"
)

// errFamily: connections must not use the family of the address. If a name has an address of the other family too, that
// is tried.
var errFamily = errors.New("no outgoing address of this family is configured")

// bindNoPort is IP_BIND_ADDRESS_NO_PORT of Linux: the port is chosen when the socket connects, so that as many
// connections are possible to each receiver as there are ports.
const bindNoPort = 24

// leaveFrom binds a socket that is about to connect to the address of its family.
func leaveFrom(from []netip.Addr, network string, socket syscall.RawConn) error {
	if len(from) == 0 {
		return nil
	}
	for _, addr := range from {
		if addr.Is4() != (network == "tcp4") {
			continue
		}
		var failed error
		err := socket.Control(func(fd uintptr) {
			if runtime.GOOS == "linux" {
				_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_IP, bindNoPort, 1) // old kernels take a port now
			}
			failed = syscall.Bind(int(fd), sockaddr(addr))
		})
		if err = errors.Join(err, failed); err != nil {
			return fmt.Errorf("leave from %s: %w", addr, os.NewSyscallError("bind", err))
		}
		return nil
	}
	return errFamily
}

func sockaddr(addr netip.Addr) syscall.Sockaddr {
	if addr.Is4() {
		return &syscall.SockaddrInet4{Addr: addr.As4()}
	}
	return &syscall.SockaddrInet6{Addr: addr.As16()}
}
