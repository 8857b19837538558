"""Fidelity: how close a stand-in is to the real service.

Recorded traffic from an HTTP archive (`exchanges`) is sent to a fresh stand-in in the same order
(`check`), and the answers are compared (`compare`): status, content type, headers, the shape of the
JSON (`answer_shape`) and its values. Ids differ between the recording and the stand-in, so `id_map`
translates them. `report` has the scores. Nothing here reaches a real host.
"""
