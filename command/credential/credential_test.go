package credential_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"carillon/command/credential"
	"carillon/eventstore/storetest/assert"
)

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for _, kind := range []credential.Kind{credential.APIKey, credential.OperatorToken, credential.AuditorToken} {
		c := credential.New(kind)
		token := c.Reveal()
		if len(token) != 3+8+1+43 || !strings.HasPrefix(token, string(kind)+c.ID+"_") {
			t.Fatalf("token has the wrong form: %d characters, prefix %q", len(token), token[:12])
		}
		read, ok := credential.Parse(kind, token)
		assert.True(t, ok && read == c && bytes.Equal(read.Hash(), c.Hash()), "the token does not parse to its parts")
		other := credential.New(kind)
		assert.True(t, other.ID != c.ID && !bytes.Equal(other.Hash(), c.Hash()), "two credentials are alike")
	}
}

func TestSecretIsNotPrinted(t *testing.T) {
	t.Parallel()
	c := credential.New(credential.APIKey)
	secret := c.Reveal()[12:]
	for _, shown := range []string{c.String(), c.LogValue().String(), fmt.Sprintf("%s %v %+v %#v %x %q %d", c, c, c, c,
		c, c, &c)} {
		assert.True(t, !strings.Contains(shown, secret), "%q holds the secret", shown)
	}
}

func TestParseRefusesOtherForms(t *testing.T) {
	t.Parallel()
	good := "ck_abcdEFGH_" + strings.Repeat("x", 43)
	if _, ok := credential.Parse(credential.APIKey, good); !ok {
		t.Fatal("a good key is refused")
	}
	for _, bad := range []string{
		"", "ck_", good[:len(good)-1], good + "x", "CK" + good[2:], "ca" + good[2:], strings.Replace(good, "H_", "H-", 1),
		strings.Replace(good, "abcd", "ab d", 1), good[:20] + "\x00" + good[21:], good[:20] + "é" + good[22:],
	} {
		_, ok := credential.Parse(credential.APIKey, bad)
		assert.True(t, !ok, "%q is taken for a key", bad)
	}
}
