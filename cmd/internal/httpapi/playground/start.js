// The key that is typed in stays in this page's memory: it is not persisted, and the page's policy lets it go nowhere
// but to this server.
window.addEventListener("load", () => {
  SwaggerUIBundle({
    url: "/openapi.json",
    dom_id: "#playground",
    deepLinking: true,
    persistAuthorization: false,
    validatorUrl: null,
    tryItOutEnabled: true,
    displayRequestDuration: true,
    docExpansion: "none",
    defaultModelsExpandDepth: 0,
  });
});
