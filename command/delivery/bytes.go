package delivery

import "github.com/google/uuid"

const (
	// smallBody is what is not counted: how many deliveries may be here bounds the memory of those.
	smallBody = 2 << 10
	// bigBody is what makes so much garbage on its way that the collector has to hear of it.
	bigBody = 64 << 10
	// largeBody is what the largest event takes.
	largeBody = 513 << 10
	// minBytes an organization may use whatever others have, as long as no more than twice the budget is used: so
	// that it gets a large body through however much hangs elsewhere.
	minBytes = 2 * largeBody
)

// bodies divides the memory of request bodies that wait or are under way between organizations, as shares does. Each body
// counts once in all, however many deliveries it has, and once for each organization that has some of them.
type bodies struct{ *shares }

// uses counts the deliveries of a body that are here, by organization. Nearly all events have one. It is guarded by the
// lanes.
type uses struct {
	all    int
	first  uuid.UUID
	count  int               // of the first organization
	others map[uuid.UUID]int // of the others
}

func (u *uses) of(organization uuid.UUID) int {
	if u.first == organization {
		return u.count
	}
	return u.others[organization]
}

func (u *uses) add(organization uuid.UUID, more int) {
	if u.all == 0 {
		u.first = organization
	}
	u.all += more
	switch {
	case u.first == organization:
		u.count += more
	case u.others == nil:
		u.others = map[uuid.UUID]int{organization: more}
	default:
		u.others[organization] += more
	}
}

// counted is how much a body counts.
func (b *Body) counted() int {
	if b == nil || b.size <= smallBody {
		return 0
	}
	return b.size
}

// hold counts one more delivery of a body for an organization.
func (b bodies) hold(body *Body, organization uuid.UUID) {
	size := body.counted()
	if size == 0 {
		return
	}
	if body.uses.all == 0 {
		b.used += size
	}
	if body.uses.of(organization) == 0 {
		b.by[organization] += size
	}
	body.uses.add(organization, 1)
}

// release counts one less.
func (b bodies) release(body *Body, organization uuid.UUID) {
	size := body.counted()
	if size == 0 {
		return
	}
	body.uses.add(organization, -1)
	if body.uses.all == 0 {
		b.used -= size
	}
	if body.uses.of(organization) > 0 {
		return
	}
	if b.by[organization] -= size; b.by[organization] == 0 {
		delete(b.by, organization)
	}
}

// left is how many more bytes an organization may use.
func (b bodies) left(organization uuid.UUID) int {
	return max(b.shares.left(organization), min(minBytes-b.by[organization], b.inAll()))
}

// leftForSlow is how many more it may use for destinations that are slow.
func (b bodies) leftForSlow(organization uuid.UUID) int {
	return max(b.shares.leftForSlow(organization), min(minBytes-b.by[organization], b.inAll()))
}

// inAll is how many more bytes all may use together, with what an organization may have whatever others do.
func (b bodies) inAll() int { return max(0, 2*b.size-b.used) }

// fits says whether a body may wait for a destination: a lane has what is left to its organization at most, as of
// everything. What is here for the organization costs nothing more.
func (b bodies) fits(body *Body, l *lane) bool {
	size := body.counted()
	return size == 0 || body.uses.of(l.organization) > 0 || l.bytes+size <= b.left(l.organization)
}

// roomy says whether a claim may take large bodies for a destination.
func (b bodies) roomy(l *lane) bool {
	if l.slow() && b.leftForSlow(l.organization) < largeBody {
		return false
	}
	return l.bytes == 0 || l.bytes <= b.left(l.organization)
}

// tell says to a claim how many bytes it may take.
func (b bodies) tell(a *Ask) {
	a.Bytes = max(b.free(), min(minBytes, b.inAll()))
	for organization := range b.by {
		if a.BytesOf == nil {
			a.BytesOf = make(map[uuid.UUID]int, len(b.by))
		}
		a.BytesOf[organization] = b.left(organization)
	}
}

// tight lists the organizations for which a claim may have left something that it had no room for.
func (a Ask) tight(claimed []Job) (tight []uuid.UUID) {
	var (
		seen map[*Body]struct{}
		all  int
		by   map[uuid.UUID]int
	)
	for _, job := range claimed {
		size := job.Body.counted()
		if _, known := seen[job.Body]; known || size == 0 {
			continue
		}
		if seen == nil {
			seen, by = map[*Body]struct{}{}, map[uuid.UUID]int{}
		}
		seen[job.Body] = struct{}{}
		all += size
		by[job.Target.Organization] += size
	}
	for organization, bytes := range by {
		left, known := a.BytesOf[organization]
		if !known {
			left = a.Bytes
		}
		if min(left-bytes, a.Bytes-all) < largeBody {
			tight = append(tight, organization)
		}
	}
	return tight
}

// comes tells of a large body.
func (d *Deliverer) comes(body *Body) {
	if d.LargeBody != nil && body.counted() >= bigBody {
		d.LargeBody()
	}
}
