// Package recap reads weeks in review: of one user, or of every user who was active in a week.
//
// There is one truth. The seconds of a week, of its days and of its languages are the totals that boards and heatmaps show,
// so a recap equals the week's board to the second. What sessions there were is told from their seconds on the days of
// the week, which the totals are the sums of: a session that crosses into the week counts with what lies in it. All that is
// said of a user is of one snapshot of the database, and AsOf says when that was: a late event, a delete or a change of mode
// can still change the recap of a week that is long over.
//
// Ranks of many users come from a Ladder: how many users have how many seconds, read once. It has an entry per number of
// seconds that a week can have, whatever the number of users. The ranks of one user are counted, so few recaps are read
// one by one at a time.
//
// Who reads a recap of somebody on privacy off is its owner, and nobody else (privacy.See): Walk and Of leave them out.
// WalkShown is for jobs; the other ways are for the user's own eyes, mails included.
package recap
