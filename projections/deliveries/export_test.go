package deliveries

// Statements whose plans are tested.
const (
	TakeBackStatement = takeBack
	PlanByIndex       = planByIndex
)
