package projections

// SwapKey is the lock of a swap.
var SwapKey = swapKey
