"""Explanations of an episode (`chunked_td.analysis.credit`) as pictures: `figure`, static; `page`, interactive."""
