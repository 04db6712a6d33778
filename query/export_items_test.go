package query

// AppendLegacy is appendLegacy.
var AppendLegacy = appendLegacy
