package egress

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestGuardResolves(t *testing.T) {
	t.Parallel()
	server := startNameServer(t, map[string][][]netip.Addr{
		"public.example":  {addrs("8.8.8.8", "1.1.1.1")},
		"private.example": {addrs("10.0.0.7", "192.168.1.1")},
		"mixed.example":   {addrs("127.0.0.1", "8.8.4.4")},
		"six.example":     {addrs("fd00::1")},
		"empty.example":   {nil},
	})
	guard := Guard{Resolver: server.resolver()}
	for _, test := range []struct{ host, want, wantErr string }{
		{"public.example", "8.8.8.8 1.1.1.1", ""},
		{"PUBLIC.example.", "8.8.8.8 1.1.1.1", ""},
		{"private.example", "", "config.url points to a private or reserved address (10.0.0.7)"},
		{"mixed.example", "8.8.4.4", ""},
		{"six.example", "", "config.url points to a private or reserved address (fd00::1)"},
		{"empty.example", "", ""},
		{"missing.example", "", ""},
		{"0x7f.1", "", "config.url points to a private or reserved address (127.0.0.1)"},
		{"8.8.8.8", "8.8.8.8", ""},
	} {
		got, err := guard.CheckHost(t.Context(), test.host)
		if (err != nil) != (test.wantErr != "") || err != nil && !errors.Is(err, ErrBlocked) {
			t.Errorf("%s: %v", test.host, err)
		}
		spelled := ""
		for i, addr := range got {
			if i > 0 {
				spelled += " "
			}
			spelled += addr.String()
		}
		if diff := cmp.Diff(test.want, spelled); diff != "" {
			t.Errorf("%s: %s", test.host, diff)
		}
		_, err = guard.CheckURL(t.Context(), "config.url", "https://"+test.host+"/hook")
		if message := text(err); message != test.wantErr {
			t.Errorf("%s: got %q, want %q", test.host, message, test.wantErr)
		}
	}
}

func TestGuardReportsCancellation(t *testing.T) {
	t.Parallel()
	server := startNameServer(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Guard{Resolver: server.resolver()}.CheckURL(ctx, "config.url", "https://missing.example/")
	if !errors.Is(err, context.Canceled) || errors.Is(err, ErrURL) {
		t.Errorf("got %v", err)
	}
}

func TestGuardRefusesMalformedHost(t *testing.T) {
	t.Parallel()
	if _, err := (Guard{}).CheckHost(t.Context(), "a..b"); err == nil || errors.Is(err, ErrBlocked) {
		t.Errorf("got %v", err)
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
