"""Recorded the first time, replayed from then on. Run it with: pytest"""


def test_orders_what_runs_out_and_nothing_large(paddock):
    result = paddock.run(["python", "agent.py"])
    assert result.exit_code == 0, result.stderr
    assert len(result.actions(kind="http", path="/stock/*")) == 3
    (made,) = result.world["shop.example"]["orders"]
    assert (made["product"], made["pieces"]) == ("tea", 20)
    (refused,) = result.actions(kind="http", path="/orders", decided="block")
    assert refused.decided_by == "large-orders"
