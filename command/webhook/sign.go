package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"time"
)

const signatureVersion = "v1,"

// Sign is the webhook-signature header of Standard Webhooks 1.0.0: for each secret v1, and the base64 of HMAC-SHA256
// over {id}.{unix seconds}.{body}, joined with single spaces in the order of the secrets. The id must not contain a
// dot.
func Sign(secrets []Secret, id string, timestamp time.Time, body []byte) string {
	prefix := make([]byte, 0, len(id)+22)
	prefix = append(prefix, id...)
	prefix = append(prefix, '.')
	prefix = strconv.AppendInt(prefix, timestamp.Unix(), 10)
	prefix = append(prefix, '.')

	encoded := base64.StdEncoding.EncodedLen(sha256.Size)
	header := make([]byte, 0, len(secrets)*(len(signatureVersion)+encoded+1))
	var sum [sha256.Size]byte
	for i, secret := range secrets {
		if i > 0 {
			header = append(header, ' ')
		}
		mac := hmac.New(sha256.New, secret.bytes())
		_, _ = mac.Write(prefix) // a hash never fails
		_, _ = mac.Write(body)
		header = append(header, signatureVersion...)
		header = base64.StdEncoding.AppendEncode(header, mac.Sum(sum[:0]))
	}
	return string(header)
}
