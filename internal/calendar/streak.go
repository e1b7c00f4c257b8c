package calendar

// StreakDays is the length in days of the current streak: of the run of active days from first to last, when that ends
// today or yesterday in the user's zone, else 0 (rules of time, 8). A last day that is not over yet, or that lies ahead
// because the user has moved west since, counts like today. nil is for a user who was never active.
func StreakDays(first, last *Day, today Day) int64 {
	if first == nil || last == nil || *last < today-1 {
		return 0
	}
	return int64(*last-*first) + 1
}
