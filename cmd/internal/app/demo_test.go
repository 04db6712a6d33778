package app_test

import (
	"bytes"
	"strings"
	"testing"

	"carillon/cmd/internal/config"
	"carillon/cmd/internal/dev"
	"carillon/cmd/internal/dev/demo"
)

func TestTheDemoGoesThrough(t *testing.T) {
	p := start(t, nil)
	authority, err := dev.EnsureAuthority(p.cfg.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	client := config.Client{DataDir: p.cfg.DataDir}
	token, err := client.Token()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = demo.Run(t.Context(), demo.Options{
		API: "http://" + p.app.APIAddr().String(), Admin: "http://" + p.app.AdminAddr().String(),
		Key: p.key, AdminToken: token, Authority: authority, Out: &out,
	})
	t.Logf("%s", out.String())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Carillon at Dusk", "signature verified", "succeeded"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the demo did not show %q", want)
		}
	}
}
