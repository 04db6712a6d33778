package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

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

// CheckOwner refuses a file or directory that another user may change: one that belongs to neither this user nor root,
// or that a group or all users may write to. A group with the owner's number is private to the owner.
func CheckOwner(path string, info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	user := uint32(os.Geteuid()) //nolint:gosec // not negative where files have owners
	if stat.Uid != user && stat.Uid != 0 {
		return fmt.Errorf("%s belongs to user %d, and this is user %d: run this as its owner, or run \"chown %d %s\" if "+
			"all of it is to be trusted",
			path, stat.Uid, user, user, path)
	}
	mode := info.Mode().Perm()
	if mode&0o002 != 0 || mode&0o020 != 0 && stat.Gid != stat.Uid {
		return fmt.Errorf("others may write to %s: run \"chmod go-w %s\" if all of it is to be trusted, or name a "+
			"directory in it that is this user's alone", path, path)
	}
	return nil
}

// CheckWriter refuses root a directory of another user, who could not read what root adds to it.
func CheckWriter(dir string) error {
	info, err := os.Stat(dir)
	if err != nil || os.Geteuid() != 0 {
		return nil //nolint:nilerr // it is created, or opening it fails
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Uid != 0 {
		return fmt.Errorf("%s belongs to user %d, who could not read what root adds to it: run this as its owner "+
			"(runuser -u USER -- carillon …)", dir, stat.Uid)
	}
	return nil
}

// CheckOwners refuses a data directory, or secrets in it, that another user can have put there.
func (c *Config) CheckOwners() error {
	for _, name := range []string{"", MasterKeyFile, nextMasterKeyFile, AdminTokenFile, SealKeyFile} {
		path := filepath.Join(c.DataDir, name)
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = CheckOwner(path, info)
		}
		if err != nil {
			return fmt.Errorf("data directory: %w", err)
		}
	}
	return nil
}
