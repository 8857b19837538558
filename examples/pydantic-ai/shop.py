"""A stand-in of the shop: what is in stock, and the orders that were made."""

from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route


async def stock(request):
    product = request.state.paddock.store.get("products", request.path_params["product"])
    return JSONResponse(product or {"error": "no such product"}, 200 if product else 404)


async def order(request):
    context, wanted = request.state.paddock, await request.json()
    with context.store.transaction():
        made = {"id": context.new_id("order_"), **wanted}
        context.store.put("orders", made["id"], made)
    return JSONResponse(made, 201)


app = Starlette(
    routes=[Route("/stock/{product}", stock), Route("/orders", order, methods=["POST"])]
)
