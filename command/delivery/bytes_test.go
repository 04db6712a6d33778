package delivery

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/publication"
)

// sized is the body of an event with so many bytes of data.
func sized(size int) *Body {
	data := fmt.Appendf(nil, `"%s"`, strings.Repeat("x", size-2))
	return NewBody(uuid.New(), publication.Published{Type: "news.item.added", Data: data}, noon)
}

const half = 500_000 // as large as an event of half a megabyte is

// offer gives deliveries of one body to some of an organization's lanes, as the dispatcher does, and counts those that it
// took.
func offer(ls *lanes, organization byte, destinations []int, body *Body) (taken int) {
	for _, n := range destinations {
		j := numbered(organization, n)
		if j.Body = body; ls.reserve(j.Target, body) {
			ls.add(j, true)
			taken++
		}
	}
	return taken
}

func upTo(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

// An organization with large events uses up to two thirds of the memory, each event counted once, and holds back neither
// another one's large events nor small ones of anybody, itself included.
func TestOrganizationsShareTheMemoryOfBodies(t *testing.T) {
	t.Parallel()
	ls := newLanes(DefaultLimits)
	events := 0
	for offer(ls, 1, upTo(20), sized(half)) > 0 {
		events++
	}
	if used := events * half; used < DefaultLimits.Bytes/3 || used > DefaultLimits.Bytes*2/3 || ls.bodies.used != used {
		t.Errorf("%d events take %d of %d bytes, and %d are counted", events, used, DefaultLimits.Bytes, ls.bodies.used)
	}
	if a := ls.ask(); slices.Contains(a.Over, uuid.UUID{2}) || a.Bytes < largeBody {
		t.Errorf("a claim may take %d bytes, and nothing of %v", a.Bytes, a.Over)
	}
	if offer(ls, 1, []int{77}, sized(smallBody)) != 1 || offer(ls, 2, []int{1}, sized(smallBody)) != 1 {
		t.Error("a small event finds no room")
	}
	theirs := 0
	for offer(ls, 2, []int{1, 2}, sized(half)) > 0 {
		theirs++
	}
	if theirs < events/4 {
		t.Errorf("another organization has room for %d events, where one has %d", theirs, events)
	}
}

// However much others have, an organization gets one large body through, up to a bound of all.
func TestALargeBodyGetsThroughBesideMany(t *testing.T) {
	t.Parallel()
	ls := newLanes(DefaultLimits)
	for organization := range byte(100) {
		for offer(ls, 1+organization, []int{1}, sized(half)) > 0 {
			if ls.bodies.used > 2*DefaultLimits.Bytes {
				t.Fatalf("%d bytes are used of %d", ls.bodies.used, DefaultLimits.Bytes)
			}
		}
	}
	if used := ls.bodies.used; used < DefaultLimits.Bytes {
		t.Fatalf("of a hundred organizations %d bytes are here", used)
	}
	got := 0
	for organization := range byte(100) {
		if ls.bodies.by[uuid.UUID{1 + organization}] > 0 {
			got++
		}
	}
	if got < 60 {
		t.Errorf("%d of 100 organizations had room for one event", got)
	}
	if offer(ls, 200, []int{1}, sized(smallBody)) != 1 {
		t.Error("a small event finds no room")
	}
}

// A claim is asked for nothing of an organization that has no memory left, and for another as soon as it has.
func TestAClaimWaitsForMemory(t *testing.T) {
	t.Parallel()
	ls := newLanes(DefaultLimits)
	for n := range 100 { // as claims took them, each of which was told too much
		j := numbered(1, n)
		j.Body = sized(half)
		ls.add(j, false)
	}
	if a := ls.ask(); !slices.Contains(a.Over, uuid.UUID{1}) {
		t.Fatalf("a claim takes for an organization that has %d bytes, and passes by %v", ls.bodies.by[uuid.UUID{1}], a.Over)
	}
	wants := false
	for _, started := range take(ls) {
		wants = ls.done(started, time.Millisecond) || wants
	}
	if a := ls.ask(); !wants || slices.Contains(a.Over, uuid.UUID{1}) || a.BytesOf[uuid.UUID{1}] > a.Bytes {
		t.Errorf("with %d bytes left it is asked for more: %t; passed by are %v", ls.bodies.left(uuid.UUID{1}), wants, a.Over)
	}
}

// A claim that left what there was no memory for says nothing of what waits, and the next one takes little of each
// destination, until there is memory for more.
func TestAClaimThatLeftWhatItHadNoMemoryFor(t *testing.T) {
	t.Parallel()
	ls := newLanes(DefaultLimits)
	expecting, coming := numbered(1, 1), numbered(1, 2)
	l := ls.lane(expecting.Target)
	large := func(n int) (claimed []Job) {
		for range n {
			j := numbered(1, 2)
			j.Body = sized(half)
			claimed = append(claimed, j)
		}
		return claimed
	}
	ls.lane(coming.Target)
	l.spilled = time.Now().Add(-time.Minute)
	a := ls.ask()
	ls.answer(a, large(a.Bytes/half))
	if l.spilled.IsZero() {
		t.Error("all that waits for a lane is taken to be here, although there was no memory for more")
	}
	if next := ls.ask(); !slices.Contains(next.Slow, expecting.Target.ID) || slices.Contains(next.Slow, numbered(2, 1).Target.ID) {
		t.Errorf("the next claim takes little of %v", next.Slow)
	}
	ls.answer(ls.ask(), large(1))
	if next := ls.ask(); len(next.Slow) != 0 {
		t.Errorf("where there was memory for more the next claim takes little of %v", next.Slow)
	}
	if !l.spilled.IsZero() {
		t.Error("nothing came of a lane, and more is expected")
	}
}

func TestABodyIsKeptOnce(t *testing.T) {
	t.Parallel()
	body := sized(5000)
	data := slices.Clone(body.Published.Data)
	for range 2 {
		rendered, err := body.Bytes()
		if err != nil || !bytes.Contains(rendered, data) {
			t.Fatalf("rendered %.80s (%v)", rendered, err)
		}
	}
	if body.Published.Data != nil {
		t.Error("the data is kept beside the body that it is in")
	}
}

// Whoever manages the process's memory hears of large bodies, and not of others.
func TestLargeBodiesAreTold(t *testing.T) {
	t.Parallel()
	told := 0
	d := &Deliverer{LargeBody: func() { told++ }}
	d.comes(sized(half))
	d.comes(sized(bigBody / 2))
	d.comes(&Body{})
	(&Deliverer{}).comes(sized(half))
	if told != 1 {
		t.Errorf("told of %d, want the large one only", told)
	}
}
