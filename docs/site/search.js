// The order of search results, and how a query is read; Sphinx includes this file.

// Pages say Send and Bcast, as mpi4py does; readers who know C type MPI_Send.
var splitQuery = (query) =>
  query.replace(/\bmpi_/gi, "").split(/[^\p{Letter}\p{Number}_]+/u).filter((term) => term)

// Without hyphens and blanks: "speedup" is in "Speed-up and its laws".
const plain = (text) => text.toLowerCase().replace(/[^\p{Letter}\p{Number}]/gu, "")

var Scorer = {
  // A notebook or a chapter that is about the query comes before the names of the manual.
  score: ([page, title, , , score]) => {
    const query = plain(new URLSearchParams(location.search).get("q") ?? "")
    return /^(notebooks|docs)\//.test(page) && query && plain(title).includes(query) ? score + 100 : score
  },
  // as Sphinx has them
  objNameMatch: 11, objPartialMatch: 6, objPrio: { 0: 15, 1: 5, 2: -5 }, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2,
}
