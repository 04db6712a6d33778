package config

import (
	"fmt"
	"os"
	"strings"

	"github.com/alecthomas/kong"
)

// FileVariable returns the variable that names a file with the value of a flag: for CARILLON_ADMIN_TOKEN it is
// CARILLON_ADMIN_TOKEN_FILE. It returns "" for a flag that holds no secret.
func FileVariable(flag *kong.Flag) string {
	if len(flag.Envs) == 0 {
		return ""
	}
	switch flag.Target.Interface().(type) {
	case Secret, PlatformTokens, Address:
		return flag.Envs[0] + "_FILE"
	}
	return ""
}

// byteOrderMark is what some editors write before a text.
const byteOrderMark = "\uFEFF"

// FromFiles resolves secrets from the files that their FileVariable names. The lines of a file are the entries of a
// list.
func FromFiles() kong.Resolver {
	return kong.ResolverFunc(func(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
		variable := FileVariable(flag)
		path := os.Getenv(variable)
		if variable == "" || path == "" {
			return nil, nil //nolint:nilnil // no value
		}
		if os.Getenv(flag.Envs[0]) != "" {
			return nil, fmt.Errorf("%s and %s are both set: give one of them", flag.Envs[0], variable)
		}
		text, err := os.ReadFile(path) //nolint:gosec // the path is the operator's own
		if err != nil {
			return nil, fmt.Errorf("%s can't be read: %w", variable, err)
		}
		lines := strings.FieldsFunc(strings.TrimPrefix(string(text), byteOrderMark),
			func(r rune) bool { return r == '\n' || r == '\r' })
		if len(lines) == 0 {
			return nil, fmt.Errorf("%s names an empty file: %s", variable, path)
		}
		for i := range lines {
			if lines[i] = strings.TrimSpace(lines[i]); len(lines) > 1 {
				lines[i] = strings.TrimSuffix(lines[i], ",")
			}
		}
		return strings.Join(lines, ","), nil
	})
}
