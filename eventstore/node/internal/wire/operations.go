package wire

import "google.golang.org/protobuf/encoding/protowire"

// What the Operations service says about a scavenge.
const (
	ScavengeStarted    = 0
	ScavengeInProgress = 1
	ScavengeStopped    = 2
)

// ParseStartScavenge decodes the request to begin one.
func ParseStartScavenge(message []byte) (threads, chunk int32, err error) {
	err = fields(message, func(field protowire.Number, content []byte, _ uint64) error {
		if field != 1 {
			return nil
		}
		return fields(content, func(field protowire.Number, _ []byte, value uint64) error {
			switch field {
			case 1:
				threads = int32(value) // #nosec G115 -- so it is encoded
			case 2:
				chunk = int32(value) // #nosec G115 -- so it is encoded
			}
			return nil
		})
	})
	return threads, chunk, err
}

// ParseStopScavenge decodes the request to stop one.
func ParseStopScavenge(message []byte) (id string, err error) {
	err = fields(message, func(field protowire.Number, content []byte, _ uint64) error {
		if field != 1 {
			return nil
		}
		return fields(content, func(field protowire.Number, content []byte, _ uint64) error {
			if field == 1 {
				id = string(content)
			}
			return nil
		})
	})
	return id, err
}

// AppendScavenge encodes the answer to either.
func AppendScavenge(dst []byte, id string, result uint64) []byte {
	dst = protowire.AppendTag(dst, 1, protowire.BytesType)
	dst = protowire.AppendString(dst, id)
	if result != 0 {
		dst = protowire.AppendTag(dst, 2, protowire.VarintType)
		dst = protowire.AppendVarint(dst, result)
	}
	return dst
}
