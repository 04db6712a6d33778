package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"carillon/cmd/internal/config"
)

// plainer rewords messages of the parser, which speak of types, for the people who run the program.
var plainer = []struct {
	said  *regexp.Regexp
	words string
}{
	{regexp.MustCompile(`: expected duration but got ("[^"]*").*`),
		` must be a time such as 30s, 5m or 2h; it is $1`},
	{regexp.MustCompile(`: expected a valid \d+ bit int but got ("[^"]*").*`), ` must be a whole number; it is $1`},
	{regexp.MustCompile(`: bool value must be .* but got ("[^"]*").*`), ` must be true or false; it is $1`},
	{regexp.MustCompile(` but got ("[^"]*").*`), `; it is $1`},
	{regexp.MustCompile(` \(from envar .*`), ``},
}

var unknownFlag = regexp.MustCompile(`^unknown flag (--[a-z-]+)`)

// mistake makes of the parser's error one that names the variable beside the flag, and the help to look at.
func mistake(err error) error {
	text, seen := err.Error(), "carillon --help"
	if unknown := unknownFlag.FindStringSubmatch(text); unknown != nil {
		if gone := config.ReplacedFlag(unknown[1]); gone != nil {
			return gone
		}
	}
	for _, p := range plainer {
		text = p.said.ReplaceAllString(text, p.words)
	}
	var wrong *kong.ParseError
	if errors.As(err, &wrong) && wrong.Context != nil {
		if selected := wrong.Context.Selected(); selected != nil {
			seen = help(selected)
			text = strings.TrimPrefix(text, selected.Path()+": ") // a Validate error says it itself
		}
		text = withVariable(text, wrong.Context.Flags())
	}
	return fmt.Errorf("%s\nSee \"%s\"", text, seen)
}

var aliases = regexp.MustCompile(` \([^)]*\)`)

// help returns the command line of a command's help, without aliases, which a shell would take for its own syntax.
func help(command *kong.Node) string {
	return aliases.ReplaceAllString(command.FullPath(), "") + " --help"
}

// emptyArgument reports whether an argument that is no flag's value is empty: a path would mean this directory.
func emptyArgument(args []string, flags []*kong.Flag) bool {
	for i, arg := range args {
		ofFlag := func(f *kong.Flag) bool {
			return !f.IsBool() && (args[i-1] == "--"+f.Name || f.Short != 0 && args[i-1] == "-"+string(f.Short))
		}
		if arg == "" && !slices.ContainsFunc(flags, ofFlag) {
			return true
		}
	}
	return false
}

// withVariable makes "CARILLON_ROLES (--roles) …" of "--roles …".
func withVariable(text string, flags []*kong.Flag) string {
	for _, flag := range flags {
		name := "--" + flag.Name
		rest, ok := strings.CutPrefix(text, name)
		if ok && len(flag.Envs) > 0 && (strings.HasPrefix(rest, " ") || strings.HasPrefix(rest, ":")) {
			return flag.Envs[0] + " (" + name + ")" + rest
		}
	}
	return text
}

// serviceVariable matches what Kubernetes sets in every container for a service whose name begins with carillon.
var serviceVariable = regexp.MustCompile(`^CARILLON_(\w+_)?(SERVICE_HOST=|SERVICE_PORT(_\w+)?=\d+$|` +
	`PORT(_\d+_(TCP|UDP|SCTP))?=\w+://|PORT_\d+_(TCP|UDP|SCTP)_(PROTO|PORT|ADDR)=)`)

// unknownVariables are the CARILLON_* variables of an environment that no flag has: most likely mistyped.
func unknownVariables(model *kong.Application, environ []string) []string {
	known := map[string]bool{}
	_ = kong.Visit(model, func(node kong.Visitable, next kong.Next) error {
		if flag, ok := node.(*kong.Flag); ok {
			for _, name := range flag.Envs {
				known[name] = true
			}
			known[config.FileVariable(flag)] = true
		}
		return next(nil)
	})
	var unknown []string
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, "CARILLON_") && !known[name] && !serviceVariable.MatchString(entry) {
			unknown = append(unknown, name)
		}
	}
	return unknown
}
