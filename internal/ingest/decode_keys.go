package ingest

import (
	"slices"
	"strconv"
	"strings"

	"github.com/go-faster/jx"
)

// keyLabels are the labels of the published contract, in byte order. Whatever else is sent counts as keyOther.
var keyLabels = sortedLabels()

const keyOther = "Other"

func sortedLabels() []string {
	labels := strings.Fields("a b c d e f g h i j k l m n o p q r s t u v w x y z 0 1 2 3 4 5 6 7 8 9 " +
		"Backspace Delete Enter Tab Escape Shift Control Alt Meta ArrowUp ArrowDown ArrowLeft ArrowRight Home End " +
		"PageUp PageDown F1 F2 F3 F4 F5 F6 F7 F8 F9 F10 F11 F12 Space ` - = [ ] \\ ; ' , . / " + keyOther)
	slices.Sort(labels)
	return labels
}

var (
	keyIndex  = indexLabels()
	byteIndex = indexBytes()
	keyJSON   = encodeLabels()
)

func indexLabels() map[string]int {
	index := make(map[string]int, len(keyLabels))
	for i, label := range keyLabels {
		index[label] = i
	}
	return index
}

// indexBytes is keyIndex for labels of one byte, which are most of what is typed. It holds index + 1: 0 is no label.
func indexBytes() (index [256]uint8) {
	for i, label := range keyLabels {
		if len(label) == 1 {
			index[label[0]] = uint8(i) + 1
		}
	}
	return index
}

// encodeLabels are the labels as JSON with their colon.
func encodeLabels() []string {
	encoded := make([]string, len(keyLabels))
	for i, label := range keyLabels {
		encoded[i] = `"` + strings.ReplaceAll(label, `\`, `\\`) + `":`
	}
	return encoded
}

// badCount marks a label whose latest value is no count.
const badCount = -1

// keyCounts collects the counts of one event. Of a label that is sent twice the last value counts, unknown labels too.
type keyCounts struct {
	known   [78]int64        // by index in keyLabels
	unknown map[string]int64 // nil while there is none
	json    []byte           // scratch
}

func (k *keyCounts) reset() { k.known, k.unknown = [78]int64{}, nil }

func (k *keyCounts) set(label []byte, count int64) {
	if len(label) == 1 && byteIndex[label[0]] > 0 {
		k.known[byteIndex[label[0]]-1] = count
		return
	}
	if i, ok := keyIndex[string(label)]; ok {
		k.known[i] = count
		return
	}
	if k.unknown == nil {
		k.unknown = make(map[string]int64)
	}
	k.unknown[string(label)] = count
}

// read reads an object of counts, whose decoder stands before it.
func (k *keyCounts) read(d *jx.Decoder) error {
	k.reset()
	it, err := d.ObjIter()
	if err != nil {
		return err
	}
	for it.Next() {
		label := it.Key()
		if d.Next() != jx.Number {
			k.set(label, badCount)
			if err := d.Skip(); err != nil {
				return err
			}
			continue
		}
		num, err := d.Raw()
		if err != nil {
			return err
		}
		k.set(label, keyCount(num))
	}
	return it.Err()
}

// keyCount is a count, clamped: clients put no bound on it.
func keyCount(num []byte) int64 {
	n, ok := parseInteger(num)
	if !ok || n < 0 {
		return badCount
	}
	return min(n, maxKeyCount)
}

// canonical is the counts as JSON, labels in byte order, without blanks and zeros: empty if nothing is left. ok is false
// if a label's value was no count.
func (k *keyCounts) canonical() (text string, ok bool) {
	other := &k.known[keyIndex[keyOther]]
	for _, n := range k.unknown {
		if n == badCount || *other == badCount {
			return "", false
		}
		*other = min(*other+n, maxKeyCount)
	}
	k.json = append(k.json[:0], '{')
	for i, n := range &k.known {
		if n == badCount {
			return "", false
		}
		if n == 0 {
			continue
		}
		k.json = append(k.json, keyJSON[i]...)
		k.json = append(strconv.AppendInt(k.json, n, 10), ',')
	}
	if len(k.json) == 1 {
		return "", true
	}
	k.json[len(k.json)-1] = '}'
	return string(k.json), true
}
