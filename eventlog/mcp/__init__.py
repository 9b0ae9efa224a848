"""MCP: what agents ask of a store through the Model Context Protocol (docs/mcp.md)."""
