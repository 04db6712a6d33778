package seal

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"
)

// Head is a signed tree head: the state of the log at a moment.
type Head struct {
	Size      uint64    `json:"size"` // events in the tree
	Root      []byte    `json:"root"`
	At        time.Time `json:"at"`
	Kept      []byte    `json:"kept"` // SHA-256 of the leaves that are kept with it
	Key       []byte    `json:"key"`  // the public key
	Signature []byte    `json:"signature"`
}

// headTime is the form of the time in the signed text.
const headTime = "2006-01-02T15:04:05.000000Z"

// text returns what is signed.
func (h *Head) text() []byte {
	return fmt.Appendf(nil, "carillon tree head v1\n%d\n%s\n%s\n%s\n", h.Size, base64.StdEncoding.EncodeToString(h.Root),
		h.At.UTC().Format(headTime), base64.StdEncoding.EncodeToString(h.Kept))
}

// Sign returns the head of a tree, with the leaves that are kept with it.
func Sign(tree *Tree, kept []byte, at time.Time, key ed25519.PrivateKey) Head {
	root, digest := tree.Root(), sha256.Sum256(kept)
	h := Head{
		Size: tree.Size(),
		Root: root[:],
		At:   at.UTC().Truncate(time.Microsecond),
		Kept: digest[:],
		Key:  public(key),
	}
	h.Signature = ed25519.Sign(key, h.text())
	return h
}

func public(key ed25519.PrivateKey) []byte {
	return key[ed25519.PrivateKeySize-ed25519.PublicKeySize:]
}

var (
	errSignature = errors.New("its signature does not fit: it was forged, or changed")
	errKey       = errors.New("it is signed by a key that is not trusted; name a former key by --key, if it is one")
)

// Check verifies the signature of a head, and that its key is a trusted one. Without trusted keys any will do.
func (h *Head) Check(trusted []ed25519.PublicKey) error {
	if len(h.Key) != ed25519.PublicKeySize || len(h.Root) != sha256.Size ||
		!h.At.Equal(h.At.Truncate(time.Microsecond)) || !ed25519.Verify(h.Key, h.text(), h.Signature) {
		return errSignature
	}
	return trust(h.Key, trusted)
}

// Same reports whether another head is this one, in every member.
func (h *Head) Same(other *Head) bool {
	return h.Size == other.Size && bytes.Equal(h.Root, other.Root) && h.At.Equal(other.At) &&
		bytes.Equal(h.Kept, other.Kept) && bytes.Equal(h.Key, other.Key) && bytes.Equal(h.Signature, other.Signature)
}

func trust(key []byte, trusted []ed25519.PublicKey) error {
	for _, one := range trusted {
		if bytes.Equal(one, key) {
			return nil
		}
	}
	if len(trusted) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", errKey, base64.StdEncoding.EncodeToString(key))
}

// maxHeadLine is longer than any head is.
const maxHeadLine = 1 << 20

// ReadHeads reads heads that were kept, one JSON object a line, such as CARILLON_SEAL_TO has them, or a log in JSON.
// Lines without a root and a signature are passed over.
func ReadHeads(from io.Reader) (heads []Head, err error) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxHeadLine)
	for lines.Scan() {
		text := bytes.TrimPrefix(lines.Bytes(), []byte("\uFEFF")) // an editor's byte order mark
		h, found, err := readHead(text)
		if err != nil {
			return nil, fmt.Errorf("tree head after %d others can't be read: %w", len(heads), err)
		}
		if found {
			heads = append(heads, h)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(heads) == 0 {
		return nil, errors.New("no tree head in it: a line must be a JSON object with size, root, at, kept, key, signature")
	}
	return heads, nil
}

// readHead reads the head of a line, which may have other members, too, and reports whether it has one.
func readHead(text []byte) (h Head, found bool, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber() // as it is spelled
	var line map[string]any
	if found = json.Valid(text) && decoder.Decode(&line) == nil; !found {
		return h, false, nil
	}
	_, root := line["root"]
	_, signature := line["signature"]
	if !root || !signature {
		return h, false, nil
	}
	var only bytes.Buffer // its members, in their order
	for i, name := range []string{"size", "root", "at", "kept", "key", "signature"} {
		value, err := json.Marshal(line[name])
		if err != nil {
			return h, false, err
		}
		_, _ = fmt.Fprintf(&only, "%c%q:%s", "{,"[min(i, 1)], name, value)
	}
	_ = only.WriteByte('}')
	if err := strictly(only.Bytes(), &h); err != nil {
		return h, false, err
	}
	if h.Size == 0 || h.Size > math.MaxInt64 || len(h.Root) != sha256.Size || len(h.Kept) != sha256.Size ||
		len(h.Key) != ed25519.PublicKeySize || len(h.Signature) != ed25519.SignatureSize {
		return h, false, errors.New("it must have a size, root, kept, key and signature")
	}
	return h, true, nil
}

// Line returns a head as one line of JSON, as ReadHeads takes it.
func (h *Head) Line() ([]byte, error) {
	line, err := json.Marshal(h)
	return append(line, '\n'), err
}

// KeyText returns a public key as people and --key write it.
func KeyText(key ed25519.PublicKey) string { return base64.StdEncoding.EncodeToString(key) }
