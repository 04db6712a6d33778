package app

import (
	"context"

	"carillon/projections/analytics"
)

// openAnalytics makes the analysts' views and role if they are missing. The read models must be there.
func (a *App) openAnalytics(ctx context.Context) error {
	return analytics.Ensure(ctx, a.base.pool, a.log)
}
