package items

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/happening"
)

const (
	packedSize = 49
	noEnd      = uint64(1) << 63 // the smallest int64
)

// when is an occurrence with the data of its instance.
type when struct {
	id, instance   uuid.UUID
	start          time.Time
	end            *time.Time
	status         happening.Status
	instanceStatus happening.Status
	instanceEnds   time.Time
}

// maxShort is how long most occurrences take at most: a day, even where clocks are set back.
const maxShort = 25 * time.Hour

// last is the last instant of an occurrence: it has ended when its end has come.
func (w when) last() time.Time {
	if w.end == nil || !w.end.After(w.start) {
		return w.start
	}
	return w.end.Add(-time.Microsecond)
}

// occurrencesOf lists all occurrences in order of start. Instants are as fine as those of Postgres.
func occurrencesOf(d happening.Details) []when {
	var all []when
	for _, instance := range d.Instances {
		first := len(all)
		var ends time.Time
		for _, o := range instance.Occurrences {
			w := when{
				id:             o.ID,
				instance:       instance.ID,
				status:         o.Status,
				instanceStatus: instance.Status,
				start:          o.Start.UTC().Truncate(time.Microsecond),
			}
			last := w.start
			if o.End != nil {
				end := o.End.UTC().Truncate(time.Microsecond)
				w.end, last = &end, end
			}
			if last.After(ends) {
				ends = last
			}
			all = append(all, w)
		}
		for i := range all[first:] {
			all[first+i].instanceEnds = ends
		}
	}
	slices.SortFunc(all, func(a, b when) int {
		return cmp.Or(a.start.Compare(b.start), bytes.Compare(a.id[:], b.id[:]))
	})
	return all
}

// pack is the form that the schema describes.
func pack(occurrences []when) []byte {
	packed := make([]byte, 0, packedSize*len(occurrences))
	for _, o := range occurrences {
		packed = append(packed, o.id[:]...)
		packed = append(packed, o.instance[:]...)
		packed = binary.BigEndian.AppendUint64(packed, uint64(o.start.UnixMicro())) //nolint:gosec // two's complement
		end := noEnd
		if o.end != nil {
			end = uint64(o.end.UnixMicro()) //nolint:gosec // two's complement
		}
		packed = binary.BigEndian.AppendUint64(packed, end)
		packed = append(packed, letter(o.status))
	}
	return packed
}

func letter(s happening.Status) byte { return cmp.Or(s, happening.Scheduled)[0] }
