"""MCP: a store's tools for agents, over the Model Context Protocol (docs/mcp.md)."""
