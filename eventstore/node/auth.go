package node

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/gossip"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/serverfeatures"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"carillon/eventstore/node/internal/store"
)

var (
	errUnauthenticated = failure(codes.Unauthenticated, "the user or the password is wrong")
	errAccessDenied    = denied("")
)

// checkStream refuses calls without the right credentials, if the node has any.
func (n *Node) checkStream(
	service any, call grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler,
) error {
	if err := n.authenticate(call.Context(), info.FullMethod); err != nil {
		batches := info.FullMethod == streams.Streams_BatchAppend_FullMethodName
		refuse(call, batches && errors.Is(err, errAccessDenied))
		return answer(call.Context(), "", err)
	}
	end := n.metrics.begin(info.FullMethod)
	defer end()
	if err := n.config.Quirks.Led(call.Context()); err != nil {
		refuse(call, false)
		return answer(call.Context(), "", err)
	}
	return handle(service, call)
}

// public are what clients and probes ask before they send credentials, if they have any.
var public = map[string]bool{
	serverfeatures.ServerFeatures_GetSupportedMethods_FullMethodName: true,
	gossip.Gossip_Read_FullMethodName:                                true,
}

func (n *Node) authenticate(ctx context.Context, method string) error {
	if n.config.User == "" {
		return nil
	}
	headers := metadata.ValueFromIncomingContext(ctx, "authorization")
	switch {
	case len(headers) == 0 && public[method]:
		return nil
	case len(headers) == 0:
		return errAccessDenied
	}
	return n.admit(ctx, addressOf(ctx), headers)
}

var errGuesses = failure(codes.ResourceExhausted, "too many wrong passwords came from this address; wait")

// admit lets the user with the right password pass. Wrong ones are answered late.
func (n *Node) admit(ctx context.Context, address string, headers []string) error {
	if n.isUser(headers) {
		if !n.logins.Right(address) {
			return errGuesses
		}
		return nil
	}
	if !n.logins.Wrong(ctx, address) {
		return errGuesses
	}
	return errUnauthenticated
}

func (n *Node) isUser(headers []string) bool {
	for _, header := range headers {
		scheme, encoded, _ := strings.Cut(header, " ")
		if !strings.EqualFold(scheme, "basic") {
			continue
		}
		decoded, err := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded))
		if err != nil {
			continue
		}
		user, password, _ := strings.Cut(string(decoded), ":")
		// Both are compared, and as hashes, so that timing reveals nothing.
		if sameSecret(user, n.config.User)&sameSecret(password, n.config.Password) == 1 {
			return true
		}
	}
	return false
}

func addressOf(ctx context.Context) string {
	if from, ok := peer.FromContext(ctx); ok {
		return from.Addr.String()
	}
	return ""
}

func sameSecret(given, want string) int {
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(a[:], b[:])
}

const settingsStream = "$settings" // holds the lists of all streams

// hasACL reports whether an event is the metadata of a stream, or the settings of all, and has an access control list.
func hasACL(stream string, event *store.EventContent) bool {
	_, described := store.DescribedStream(stream)
	var fields map[string]json.RawMessage
	if !described && stream != settingsStream || !event.JSON ||
		json.Unmarshal(bytes.TrimPrefix(event.Data, []byte(store.ByteOrderMark)), &fields) != nil {
		return false
	}
	for _, name := range []string{"$acl", "$userStreamAcl", "$systemStreamAcl"} {
		if list := string(fields[name]); list != "" && list != "null" && list != "{}" {
			return true
		}
	}
	return false
}
