package visiting

import "context"

// Visit makes the visit of a turn.
func (m *Monitor) Visit(ctx context.Context, turn Turn) { m.newVisit(turn).run(ctx) }
