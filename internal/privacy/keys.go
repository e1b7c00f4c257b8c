package privacy

import "github.com/google/uuid"

// Key holds a user's cached mode. The hash tag is the user, so that it can be asked together with whatever else an
// admission asks of that user, on one node of a cluster.
func Key(userID uuid.UUID) string { return "mode:{" + userID.String() + "}" }
