package egress_test

import (
	"errors"
	"testing"

	"carillon/command/egress"
)

func TestHideAddresses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`Post "https://hooks.example.org/T0/s3cret?k=v": EOF`:           `Post "https://hooks.example.org/…": EOF`,
		`failed to send to https://u:s3cret@o.example:4318/v1: 500 (x)`: `failed to send to https://o.example:4318/… 500 (x)`,
		`https://example.org/`:                  `https://example.org`,
		`parse "https://u:s3/c@host/x": failed`: `parse "https://…": failed`,
		`ftp://host?s3cret, no address`:         `ftp://host/… no address`,
		`dial tcp 192.0.2.1:443: timeout`:       `dial tcp 192.0.2.1:443: timeout`,
	} {
		if got := egress.HideAddresses(errors.New(text)).Error(); got != want {
			t.Errorf("%s\nis shown as %s\nwant        %s", text, got, want)
		}
	}
	if egress.HideAddresses(nil) != nil {
		t.Error("nil became an error")
	}
}
