package esdb_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"carillon/eventstore/esdb"
)

func TestConnectionStrings(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for connection, want := range map[string]string{
		"esdb://localhost:2113?tls=false":                                     "",
		"esdb://localhost?tls=false":                                          "",
		"esdb://localhost:2113/?tls=false":                                    "",
		"esdb://admin:pa%2Fss@localhost:2113?tls=true":                        "",
		"esdb+discover://a.example:2113?keepAliveTimeout=4000":                "",
		"esdb://a.example:2113,b.example:2113,c.example?tls=true":             "",
		"esdb://user:pass@a.example:2113,b.example:2113?TLSVERIFYCERT=false":  "",
		"esdb://localhost:2113?nodePreference=leader&connectionName=carillon": "",
		"esdb://localhost:2113?tlsCAFil=/etc/ca.pem":                          `"tlsCAFil" is not an option; there are tls,`,
		"esdb://localhost:2113?tls=maybe":                                     "Setting 'tls' must be either true or false",
		"esdb://localhost:2113?keepAliveInterval=10s":                         `Invalid keepAliveInterval "10s"`,
		"esdb://localhost:2113?nodePreference=follower":                       `can only be leader, not "follower"`,
		"esdb://localhost:2113?tlsCAFile=/nowhere/ca.pem":                     "tlsCAFile: open /nowhere/ca.pem",
		"esdb://localhost:2113?tlsCAFile=" + empty:                            "holds no certificate",
		"esdb://localhost:2113?userCertFile=/nowhere/c.pem":                   "both userCertFile and userKeyFile",
		"esdb://localhost:2113/carillon?tls=false":                            `a path, "/carillon", after "localhost:2113"`,
		"esdb://a.example:2113,b.example:2113/carillon":                       `it has a path, "/carillon"`,
		"kurrentdb+discover://a.example:2113?tls=true":                        "",
		"http://localhost:2113":                                               "it must be of the form esdb://",
		"localhost:2113":                                                      "it must be of the form esdb://",
		"esdb://localhost:port":                                               "it must be of the form esdb://",
		"esdb://admin:top?secret@localhost:2113?tls=true":                     "in a password @, /, ?, # and % are",
		"esdb://admin:top/secret@localhost:2113":                              "in a password @, /, ?, # and % are",
		"esdb://admin@corp:top@secret@localhost:2113":                         "",
		"esdb://admin:top%secret@localhost:2113":                              "it must be of the form esdb://",
	} {
		store, err := esdb.Open(connection, slog.New(slog.DiscardHandler))
		switch {
		case want == "" && err == nil:
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		case want == "" || err == nil || !strings.Contains(err.Error(), want):
			t.Errorf("%s: error = %v, want %q", connection, err, want)
		case strings.Contains(err.Error(), "secret"):
			t.Errorf("%s: the error repeats a part of the password: %v", connection, err)
		}
		var file *os.PathError
		if strings.Contains(want, "open ") && !errors.As(err, &file) {
			t.Errorf("%s: %v does not say what is wrong with the file", connection, err)
		}
	}
}
